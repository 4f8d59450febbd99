package wire

// OpSign asks for a signature for the external signer protocol, by a key that
// the agent holds unlocked anyway.
const OpSign = "sign"

// Sign is what is to be signed.
type Sign struct {
	// Key is the key's URI, without what says how it is reached.
	Key string `json:"key"`
	// Digest is a digest or, for Ed25519, the message.
	Digest []byte `json:"digest"`
	// Hash is the number of the hash in Go's package crypto, 0 for none.
	Hash uint `json:"hash"`
	// Salt is the length of an RSA-PSS salt as Go's package rsa has it; nil for
	// any other kind of signature.
	Salt *int `json:"salt,omitempty"`
}

// Signed is the answer.
type Signed struct {
	// Held tells whether the agent holds the key unlocked, for this use. If it
	// does not there is no signature, and no error: the token is there for all.
	Held      bool   `json:"held"`
	Signature []byte `json:"signature,omitempty"`
}
