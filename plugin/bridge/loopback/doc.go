// Package loopback is where the bridge listens and how clients know it: a port on
// 127.0.0.1, and for each machine certificates of authorities that are made for them alone.
// [Setup] makes both once, [Maintain] replaces a machine's certificate in good time. The
// keys of the certificates are sealed with what identifies the machine, so that a copy of
// the folder passes for the bridge on no other. It also has the form of the addresses, a
// path for each enrollment. It knows folders, and neither sessions nor what the bridge serves.
package loopback
