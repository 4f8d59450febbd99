// Package hsm holds the contracts between kubehsm and hardware tokens: what a
// token, a slot and a key are, how they are named, how a person is asked for a
// PIN or a touch, and which errors can come back. It is pure Go; the drivers
// in hsm/pkcs11 and hsm/piv implement it and are chosen by the program's main.
//
// A private key never crosses this interface: it is generated on the token and
// used through [Token.Signer], a [crypto.Signer].
//
// Tokens and keys are named by [URI], never by a slot index, which moves
// between boots and insertions. Text that comes from a token (labels, serials,
// certificate subjects) is kept as it is here and is not safe to print as it is.
package hsm
