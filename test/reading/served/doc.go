// Package served compares requests with the help of more of the API server than
// package reading can build for a fuzzer: its filter for impersonation ([TestRequests]),
// and a whole generic API server behind the bridge ([TestServed]). That one also tells
// whether the account of a body is true ([TestBodies]).
package served
