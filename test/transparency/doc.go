// Package transparency holds the bridge to its promise: what kubectl does
// through it is what it does without. Each command is run twice, through the
// bridge with the token's key and directly with a key file of the same user, and
// what it printed, its exit code and the requests that the API server saw
// must be the same.
package transparency
