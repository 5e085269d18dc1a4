// Package admin is the operators' API: the services of rpcgate.admin.v1 over the
// store of apps and tokens, who may use them, and the log of what they did. The
// commands and the gateway's admin port both serve it, so that whatever is done
// in one way is the same done in the other.
//
// It promises:
//
//   - A token's secret is in the answer that makes it, and nowhere else.
//   - Each change, and each attempt that was refused, is one line in the audit
//     log, which holds no secret, and which nobody can forge lines of.
//   - What cannot be written to the audit log's file is not done.
package admin
