// Package card tests the external signer with a PIV card, whose key wants its PIN
// for each signature: kubectl with the auth provider, the program, pcscd and a
// card of ours in namespaces of their own.
package card
