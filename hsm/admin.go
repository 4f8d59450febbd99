package hsm

import "context"

// The interfaces below are what some tokens can do beyond [Token]. A caller
// asks for them by a type assertion; a token that has the method but not the
// feature returns [ErrUnsupported].

// Watcher is a driver that notices tokens that come and go.
type Watcher interface {
	// Watch returns when tokens may have come or gone since it was called, or
	// with ctx's error.
	Watch(ctx context.Context) error
}

// Inventory lists every place for a key, also the empty and the reserved ones,
// which [Token.Slots] leaves out. A slot that cannot hold a client key says why
// in its Problem.
type Inventory interface {
	AllSlots(ctx context.Context) ([]Slot, error)
}

// Details describe a PIV card beyond [TokenInfo]. Fields that the card does not
// tell are zero, or nil.
type Details struct {
	FormFactor string `json:"formFactor,omitempty"` // "USB-C keychain"
	FIPS       bool   `json:"fips,omitempty"`
	PUK        *Tries `json:"puk,omitempty"`
	PIN        *Tries `json:"pin,omitempty"`
	// ManagementKey describes the key that guards writing.
	ManagementKey ManagementKeyState `json:"managementKey"`
	// Attests tells whether the card can attest its keys.
	Attests bool `json:"attests"`
	// IdentityFrom says what [TokenInfo].Serial is made of: "serial", "guid"
	// (of the card holder identifier), "key" (a key's hash), "" nothing.
	IdentityFrom string `json:"identityFrom,omitempty"`
}

// Tries is a counter of a PIN or PUK.
type Tries struct {
	Left    int  `json:"left"`
	Total   int  `json:"total,omitempty"`
	Default bool `json:"default"` // the default value is still in force
}

// ManagementKeyState describes a PIV management key.
type ManagementKeyState struct {
	Algorithm ManagementAlgorithm `json:"algorithm,omitempty"`
	// Default is true if the default value is known to be in force.
	Default bool `json:"default"`
	// Protected: the card keeps the key itself, readable with the PIN (as ykman's
	// --protect and yubikey-agent do).
	Protected bool        `json:"protected"`
	Touch     TouchPolicy `json:"touchPolicy"`
}

// Detailer tells [Details].
type Detailer interface {
	Details(ctx context.Context) (Details, error)
}

// PINChanger changes secrets. All are asked from p, old and new.
type PINChanger interface {
	// ChangePIN changes the PIN ([UserPIN] means the PIV PIN too) or, with kind
	// [PUK] or [SOPIN], that.
	ChangePIN(ctx context.Context, kind PINKind, p Prompter) error
	// Unblock sets a new PIN with the PUK or the SO PIN.
	Unblock(ctx context.Context, p Prompter) error
}

// InitializeOptions say how to set up a token.
type InitializeOptions struct {
	// Label is what people will know the token by: 1 to 32 bytes.
	Label string
	// Erase allows a token that is set up already to be erased. Without it such
	// a token gives [ErrOccupied].
	Erase bool
}

// Initializer is a driver that sets up tokens (PKCS#11 C_InitToken, C_InitPIN).
type Initializer interface {
	// Initialize erases the one token that u names, labels it and gives it an SO
	// PIN and a user PIN, asked from p: a blank token gets a new SO PIN, one that
	// is set up wants its own and keeps it. Tokens opened before are dead then.
	Initialize(ctx context.Context, u URI, o InitializeOptions, p Prompter) (TokenInfo, error)
}

// RetrySetter sets how many wrong PINs and PUKs lock (1 to 15 each). The PIN
// stays; the PUK is set to a new one, asked from p.
type RetrySetter interface {
	SetRetries(ctx context.Context, pin, puk int, p Prompter) error
}

// ManagementAlgorithm names a management key's cipher.
type ManagementAlgorithm string

// The ciphers (SP 800-78-4 table 6-1, Yubico firmware 5.4 for AES).
const (
	TDES   ManagementAlgorithm = "3des"
	AES128 ManagementAlgorithm = "aes-128"
	AES192 ManagementAlgorithm = "aes-192"
	AES256 ManagementAlgorithm = "aes-256"
)

// ManagementKeyOptions say what management key to set.
type ManagementKeyOptions struct {
	Algorithm ManagementAlgorithm // "": the one in use
	// Key is the new key in bytes; nil makes a random one.
	Key *Secret
	// Protect keeps the key on the card, readable with the PIN.
	Protect bool
	// Touch wants a touch for every use of the key.
	Touch bool
}

// ManagementKeySetter replaces the management key.
type ManagementKeySetter interface {
	// SetManagementKey returns the new key, which the caller zeroes. With an
	// error, a key that is not nil may be in force already: show it.
	SetManagementKey(ctx context.Context, o ManagementKeyOptions, p Prompter) (*Secret, error)
}

// Resetter sets the whole application to the factory's state.
type Resetter interface {
	// Reset destroys all keys and certificates after p confirmed it by the serial.
	Reset(ctx context.Context, p Prompter) error
}

// KeyMover moves a key to an empty slot; the certificate goes with it.
type KeyMover interface {
	Move(ctx context.Context, from, to URI, p Prompter) (Slot, error)
}

// CertificateDeleter removes a certificate and leaves the key.
type CertificateDeleter interface {
	DeleteCertificate(ctx context.Context, u URI, p Prompter) error
}

// Attestation is a token's own statement about one of its keys, as it came from
// the token: not verified, not even parsed.
type Attestation struct {
	// Statement is the certificate for the key (DER), Intermediate that of the
	// device's attestation key, which signed it (DER).
	Statement, Intermediate []byte
}

// Attester states where a key was made and what guards it.
type Attester interface {
	Attest(ctx context.Context, u URI) (Attestation, error)
}
