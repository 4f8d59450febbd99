// Package upstream is the way from the bridge to one API server with one key: a pooled
// HTTP/2 connection whose TLS client signature the token made, tunnels and lanes beside it, and
// what carries a request over them.
//
// An upstream dials once however many ask. It knows the enrollment, and neither the
// sessions nor whose request it carries but for the client's process, which a dial
// tells to whoever asks a person for the signature ([ClientOf]).
package upstream
