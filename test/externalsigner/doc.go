// Package externalsigner tests the external signer protocol from both ends on
// real parts: kubectl with the auth provider, the program as its signer, tokens
// in SoftHSM2, a real API server.
package externalsigner
