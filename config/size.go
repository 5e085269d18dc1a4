package config

// Size is a number of bytes, written as a plain number or with a unit: 512KiB, 4MiB, 1GiB.
type Size int64
