// Package informers watches an API server through the bridge with client-go's
// shared informers, as controllers do for hours, and compares what they are told
// with what informers with a key file are told meanwhile: while the loopback
// certificate changes, the API server and the agent crash, and the token is taken
// away.
package informers
