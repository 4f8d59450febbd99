// Package approver carries out in a cluster what plugin/judge says of requests. One
// replica, the leader, decides; the others keep their caches filled.
//
// Requests are kept in the cache as stubs, as there may be tens of thousands of them;
// the one that is decided on is read anew, and the decision is bound to what was read.
// What a ticket was used for is on the roster before its request is approved, so that
// a leader that ends in between is succeeded by one that knows.
package approver
