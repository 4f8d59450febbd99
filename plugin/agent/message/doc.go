// Package message is what a client and the agent tell each other, a type for each request
// and each answer: an operation's request embeds [link.Header], its answer [link.OK].
//
// # Compatibility
//
// A client finds an agent of an older program running, or of a newer one. Whatever the
// versions, both understand hello, status, lock, stop and retire, which say who is older and
// let the older one give way. The others want the same [wire.Version], which goes up with
// every change that an older end would misread. A field that an older end may ignore is
// added without that; a field is never renamed, nor given another meaning; and a message
// that an older client must be asked for says so in its request, as Beats and Waits do.
//
// It is not part of package wire, which must not import what these messages name: what
// people are asked, sessions of the bridge, workers.
package message
