package hsm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Abilities are what a token can do, as far as its driver knows. What is false
// gives [ErrUnsupported]; what is true may still be refused by a token that does not
// say what it cannot do. They are data: a process that does not hold the token
// knows them too.
type Abilities struct {
	Generate      bool `json:"generate,omitempty"`      // [Token.Generate]
	Store         bool `json:"store,omitempty"`         // [Token.StoreCertificate]
	Delete        bool `json:"delete,omitempty"`        // [Token.Delete]
	Attest        bool `json:"attest,omitempty"`        // [Administration]
	Details       bool `json:"details,omitempty"`       // [Administration]
	ChangePIN     bool `json:"changePIN,omitempty"`     // [Administration], Unblock as well
	ManagementKey bool `json:"managementKey,omitempty"` // [Administration]
	Reset         bool `json:"reset,omitempty"`         // [Administration]
	Initialize    bool `json:"initialize,omitempty"`    // [Initializer]
	// Policies tells that a new key's PIN and touch policy can be chosen.
	Policies bool `json:"policies,omitempty"`
	// Lack is about algorithms that keys cannot be made of. Of others they can, or
	// nothing is known.
	Lack Lack `json:"lack,omitzero"`
}

// Lack says which algorithms a token lacks, and why.
type Lack struct {
	Algorithms string `json:"algorithms"` // names, joined by blanks
	Why        string `json:"why"`        // a clause
}

// Lacks says in a clause why a token cannot make keys of an algorithm, "" if it can
// or nothing is known.
func (c Abilities) Lacks(a Algorithm) string {
	if slices.Contains(strings.Fields(c.Lack.Algorithms), string(a)) {
		return c.Lack.Why
	}
	return ""
}

// Makes refuses with [ErrUnsupported] a key that the token says it cannot make, and names
// one that it can.
func (c Abilities) Makes(o GenerateOptions) error {
	if why := c.Lacks(o.Algorithm); why != "" {
		return hint.With(fmt.Errorf("keys of type %s: %w: %s", o.Algorithm, ErrUnsupported, why),
			c.Instead(o.Algorithm))
	}
	if !c.Policies && (o.PIN != PINDefault || o.Touch != TouchDefault) {
		return hint.With(fmt.Errorf("PIN and touch policies: %w", ErrUnsupported),
			"leave out --pin-policy and --touch-policy; the card then chooses")
	}
	return nil
}

// Instead is the hint to make a key of another algorithm.
func (c Abilities) Instead(than Algorithm) string {
	for _, a := range Algorithms() {
		if a != than && c.Lacks(a) == "" {
			return fmt.Sprintf("make a key of another algorithm: --algorithm %s", a)
		}
	}
	return "use another token"
}

// Watcher is a driver that notices tokens that come and go.
type Watcher interface {
	// Watch returns when tokens may have come or gone since it was called, or
	// with ctx's error.
	Watch(ctx context.Context) error
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
	// Touch needs a touch for every use of the key.
	Touch bool
}

// Attestation is a token's own statement about one of its keys, as it came from
// the token: not verified, not even parsed.
type Attestation struct {
	// Statement is the certificate for the key (DER), Intermediate that of the
	// device's attestation key, which signed it (DER).
	Statement, Intermediate []byte
}

// Administration is what only some tokens can do, as [TokenInfo.Can] says. Others
// answer [ErrUnsupported], see [Unsupported].
type Administration interface {
	// AllSlots lists every place for a key, also the empty and the reserved ones,
	// which [Token.Slots] leaves out. A slot that cannot hold a client key says why
	// in its Problem. Tokens that have no fixed places list what they hold.
	AllSlots(ctx context.Context) ([]Slot, error)
	// Details tells what the token tells beyond [TokenInfo].
	Details(ctx context.Context) (Details, error)
	// ChangePIN changes the PIN ([UserPIN] means the PIV PIN too) or, with kind
	// [PUK] or [SOPIN], that. All are asked from p, old and new.
	ChangePIN(ctx context.Context, kind PINKind, p Prompter) error
	// Unblock sets a new PIN with the PUK or the SO PIN; both are asked from p.
	Unblock(ctx context.Context, p Prompter) error
	// SetManagementKey replaces the management key and returns the new one, which
	// the caller zeroes. With an error, a key that is not nil may be in force
	// already: show it.
	SetManagementKey(ctx context.Context, o ManagementKeyOptions, p Prompter) (*Secret, error)
	// Reset sets the whole application to the factory's state: it destroys all keys
	// and certificates after p confirmed it by the serial.
	Reset(ctx context.Context, p Prompter) error
	// Attest has the token state where the key was made and what guards it.
	Attest(ctx context.Context, u URI) (Attestation, error)
}

// Unsupported is the [Administration] of a token that can do nothing of it, but
// for AllSlots, which has no such answer. Drivers embed it and implement what
// their tokens can do.
type Unsupported struct{}

// Details implements [Administration].
func (Unsupported) Details(context.Context) (Details, error) { return Details{}, ErrUnsupported }

// ChangePIN implements [Administration].
func (Unsupported) ChangePIN(context.Context, PINKind, Prompter) error { return ErrUnsupported }

// Unblock implements [Administration].
func (Unsupported) Unblock(context.Context, Prompter) error { return ErrUnsupported }

// SetManagementKey implements [Administration].
func (Unsupported) SetManagementKey(context.Context, ManagementKeyOptions, Prompter) (*Secret, error) {
	return nil, ErrUnsupported
}

// Reset implements [Administration].
func (Unsupported) Reset(context.Context, Prompter) error { return ErrUnsupported }

// Attest implements [Administration].
func (Unsupported) Attest(context.Context, URI) (Attestation, error) {
	return Attestation{}, ErrUnsupported
}
