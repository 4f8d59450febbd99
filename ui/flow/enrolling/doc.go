// Package enrolling knows what was begun from this computer and is not over: what an
// enrollment asks for ([Options]), how far it is ([Progress]), and which requests were
// filed ([Request]). It reads and writes these records, and talks to no token, no
// cluster and no person.
package enrolling
