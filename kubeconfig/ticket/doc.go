// Package ticket is the one line that a help desk gives a person: everything
// that `kubehsm join` needs, from the cluster's address to the name that the
// certificate is for.
//
//	t := ticket.Ticket{Server: "https://10.0.0.1:6443", Pins: pins, Token: token, Expires: expires,
//		Terms: ticket.Terms{User: "jane"}}
//	text, err := t.Reveal() // KHSM1-ABCDE-…
//
// The text begins with its version and ends with a checksum, so that a typing
// mistake is told from a ticket that somebody else made. Its alphabet is that of
// RFC 4648's base32, which a QR code keeps compactly; case, white space and
// dashes do not matter, and 0, 1 and 8, which the alphabet lacks, are read as
// O, I and B.
//
// A ticket holds a bootstrap token, which is a secret: a [Ticket] prints
// without it, however it is printed.
//
// What is asked for, the [Terms], is kept in the cluster too, so that an approver
// can compare: as the description of the token, for who may read it, and as groups
// of the token, which the API server writes on each request that is filed with it.
package ticket
