// Package loopback is where the bridge listens and how clients know it: a port on 127.0.0.1,
// and a certificate authority (CA) that can vouch for this computer's loopback alone. [Setup]
// makes both once, for all computers that share the folder. It also has the form of the
// addresses, a path for each enrollment. It knows folders, and neither sessions nor what the
// bridge serves.
package loopback
