// Package breaker owns when to stop calling a sick method for a while.
package breaker
