// Package socket is sockets between processes of one user, on Windows named pipes: a
// listener that replaces what a dead one left behind, and both ends' look at who is at the
// other one.
package socket
