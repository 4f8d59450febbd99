package hsm

import (
	"context"
	"crypto"
	"crypto/x509"
)

// TokenInfo describes a token without needing a PIN.
type TokenInfo struct {
	Scheme       string `json:"scheme"` // "pkcs11" or "piv"
	Label        string `json:"label,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
	Serial       string `json:"serial,omitempty"`
	Firmware     string `json:"firmware,omitempty"`
	// Reader is the PC/SC reader, or the description of the PKCS#11 slot.
	Reader string `json:"reader,omitempty"`
	// Module is the PKCS#11 library that reaches the token.
	Module *Module `json:"module,omitempty"`
	// SlotID is the PKCS#11 slot number of the moment. It moves: show it, never keep it.
	SlotID uint64 `json:"slotID,omitempty"`
	// Initialized is false for a PKCS#11 token that still awaits C_InitToken.
	Initialized bool     `json:"initialized"`
	ReadOnly    bool     `json:"readOnly,omitempty"`
	PIN         PINState `json:"pin"`
	// Can is what the token can do.
	Can Abilities `json:"can,omitzero"`
}

// URI returns the URI that names this token, with module-path where known.
func (t TokenInfo) URI() URI {
	u := URI{Scheme: t.Scheme, Serial: t.Serial}
	if t.Scheme == SchemePKCS11 {
		u.Token, u.Manufacturer, u.Model = t.Label, t.Manufacturer, t.Model
		if t.Module != nil {
			u.ModulePath = t.Module.Path
		}
	}
	return u
}

// BlankURI is the URI of a token that is not set up. Such a token has no label and no serial,
// so the URI names its current slot and is good only for a command that runs now.
func (t TokenInfo) BlankURI() URI {
	u := t.URI()
	if t.Scheme == SchemePKCS11 && t.Serial == "" {
		u.SlotID = &t.SlotID
	}
	return u
}

// Name is the shortest text a person knows the token by: its label, else its
// model and serial. It is raw: clean it before it is printed.
func (t TokenInfo) Name() string {
	switch {
	case t.Label != "":
		return t.Label
	case t.Model != "" && t.Serial != "":
		return t.Model + " " + t.Serial
	case t.Serial != "":
		return t.Serial
	}
	return t.Reader
}

// Module describes a PKCS#11 library (C_GetInfo).
type Module struct {
	Name string `json:"name,omitempty"` // p11-kit's name, if it has one
	// Path is that of the library or, of a remote module of p11-kit's configuration, that of
	// the .module file which says where it is.
	Path string `json:"path"`
	// Server is the address of the p11-kit server, or the command, by which the tokens
	// arrive, if they are elsewhere.
	Server       string `json:"server,omitempty"`
	Description  string `json:"description,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Version      string `json:"version,omitempty"`
}

// PINState is what the token tells of its user PIN without a try being spent.
type PINState struct {
	// Retries is the number of tries left; -1 when the token does not tell.
	Retries int `json:"retries"`
	// Low, Final and Locked are PKCS#11's CKF_USER_PIN_COUNT_LOW, _FINAL_TRY
	// and _LOCKED; a driver that knows Retries sets them too.
	Low    bool `json:"low,omitempty"`
	Final  bool `json:"final,omitempty"`
	Locked bool `json:"locked,omitempty"`
	// NotSet: the token has no user PIN yet. NotNeeded: it works without login.
	NotSet    bool `json:"notSet,omitempty"`
	NotNeeded bool `json:"notNeeded,omitempty"`
	// Default: the default PIN is still in force, where the token tells.
	Default bool `json:"default,omitempty"`
	// PINPad: the PIN is typed on the reader, not here (CKF_PROTECTED_AUTHENTICATION_PATH).
	PINPad bool `json:"pinPad,omitempty"`
	// MinLen and MaxLen bound the PIN's length in bytes; 0 unknown.
	MinLen int `json:"minLen,omitempty"`
	MaxLen int `json:"maxLen,omitempty"`
}

// Blocked tells whether no try is left: the PUK, or the SO PIN, sets a new PIN.
func (s PINState) Blocked() bool {
	return s.Locked || s.Retries == 0 && !s.NotSet && !s.NotNeeded
}

// fewTries is the number of tries left from which on one of them is not to be
// spent without a person.
const fewTries = 2

// Counted tells whether a wrong PIN has been counted since the last right one,
// as far as the token tells, or few tries are left in any case. A PIN that nobody
// types now must not be tried then.
func (s PINState) Counted() bool {
	return s.Low || s.Final || s.Locked || s.Retries >= 0 && s.Retries <= fewTries
}

// Origin says where a key was made.
type Origin string

// The origins. An unknown one is empty.
const (
	Generated Origin = "generated" // on the token
	Imported  Origin = "imported"
)

// Key describes the key in a slot; the private part stays in the token.
type Key struct {
	Algorithm Algorithm        `json:"algorithm"`
	Public    crypto.PublicKey `json:"-"`
	Origin    Origin           `json:"origin,omitempty"`
	PIN       PINPolicy        `json:"pinPolicy"`
	Touch     TouchPolicy      `json:"touchPolicy"`
	// Extractable is true if the token says that the private key may leave it
	// (CKA_EXTRACTABLE, or not CKA_SENSITIVE). Such a key is no hardware key.
	Extractable bool `json:"extractable"`
}

// Slot is a place on a token for one key and its certificate: a PIV slot (9a),
// or on a PKCS#11 token the objects that share a CKA_ID.
type Slot struct {
	// URI names the slot: token and slot id, or token, object label and id.
	URI URI `json:"uri"`
	// ID is "9a" for PIV, the CKA_ID in hex for PKCS#11.
	ID    string `json:"id"`
	Label string `json:"label,omitempty"`
	// Key is nil when the slot holds none, or only a certificate.
	Key         *Key              `json:"key,omitempty"`
	Certificate *x509.Certificate `json:"-"`
	// Older are further certificates for the same public key as Certificate, and none of them
	// is newer. A program that was killed while it replaced a certificate leaves one.
	Older []*x509.Certificate `json:"-"`
	// Half tells that something is missing, "" that nothing is. Where a token hides private
	// keys until login, it tells nothing before.
	Half Half `json:"half,omitempty"`
	// Problem says in a clause why the slot cannot be used, "" if it can.
	Problem string `json:"problem,omitempty"`
}

// Half is what there is in a slot of a key pair with its certificate, where that is not
// a whole. A program that was killed leaves such things.
type Half string

// The halves.
const (
	HalfPrivate     Half = "private"     // a private key, whose public key nothing tells
	HalfPublic      Half = "public"      // a public key without its private key
	HalfApart       Half = "apart"       // a private key and its public key, under different ids
	HalfCertificate Half = "certificate" // a certificate, not of an authority, without its key
	HalfOther       Half = "other"       // a key, and a certificate for another key
)

// OfKey tells whether the half belongs to a key pair, rather than being a certificate alone.
func (h Half) OfKey() bool { return h == HalfPrivate || h == HalfPublic || h == HalfApart }

// CertificateMatches tells whether the slot's certificate is for its key.
func (s Slot) CertificateMatches() bool {
	return s.Key != nil && s.Certificate != nil && SameKey(s.Key.Public, s.Certificate.PublicKey)
}

// GenerateOptions say what key to make and where.
type GenerateOptions struct {
	// Slot is the PIV slot ("9a"). PKCS#11 ignores it: the id is made from the public key.
	Slot string
	// Label is the PKCS#11 object label. PIV ignores it.
	Label     string
	Algorithm Algorithm // "" is [ECDSAP256]
	PIN       PINPolicy
	Touch     TouchPolicy
	// Overwrite allows the key of an occupied PIV slot to be destroyed. Without
	// it such a slot gives [ErrOccupied].
	Overwrite bool
}

// Driver reaches one kind of token. It is safe for concurrent use.
type Driver interface {
	// Scheme is the URI scheme it serves: [SchemePKCS11] or [SchemePIV].
	Scheme() string
	// List finds the tokens present now. An odd module, reader or card never
	// hides the others: it becomes a Problem.
	List(ctx context.Context) (Listing, error)
	// Open finds the one token that u names. Errors: [ErrNoToken],
	// [ErrSeveralTokens], [ErrBusy], [ErrModule].
	Open(ctx context.Context, u URI) (Token, error)
	// Close releases modules and connections. Tokens opened from it are dead then.
	Close() error
}

// Listing is what [Driver.List] found.
type Listing struct {
	Tokens   []TokenInfo `json:"tokens"`
	Problems []Problem   `json:"problems,omitempty"`
}

// Problem is a module or reader that could not be listed.
type Problem struct {
	Source string // module path or reader name
	Err    error
}

// Token is one token. It is safe for concurrent use; its driver serialises
// access and holds the device only as long as an operation needs it. Every
// method may return [ErrRemoved], [ErrBusy] or [ErrModule]; those that take a
// [Prompter] may ask for the PIN and return what [AskPIN] returns.
type Token interface {
	// Info reads the token's description and PIN state afresh.
	Info(ctx context.Context) (TokenInfo, error)
	// Slots lists keys and certificates; p may be nil. Tokens that hide public
	// objects before login are asked for a PIN only if p is not nil.
	Slots(ctx context.Context, p Prompter) ([]Slot, error)
	// Slot finds the one slot that u names: [ErrNoKey], [ErrSeveralKeys].
	Slot(ctx context.Context, u URI) (Slot, error)
	// Unlock verifies the user PIN, asking p. It does nothing when unlocked.
	Unlock(ctx context.Context, p Prompter) error
	// Unlocked tells whether keys can be used without asking for a PIN.
	Unlocked() bool
	// Lock forgets the PIN and logs out, here and on the token.
	Lock() error
	// Generate makes a key pair on the token, private and non-extractable, and
	// returns its slot. A half-made key is removed again on error.
	Generate(ctx context.Context, o GenerateOptions, p Prompter) (Slot, error)
	// StoreCertificate writes the certificate beside the key in the slot that u
	// names, replacing an older one for that key. [ErrKeyMismatch] if it is for
	// another key.
	StoreCertificate(ctx context.Context, u URI, cert *x509.Certificate, p Prompter) error
	// Delete removes key and certificate from the slot that u names.
	Delete(ctx context.Context, u URI, p Prompter) error
	// Signer returns a signer for the key in the slot that u names. If want is
	// not nil, the slot's public key must equal it ([ErrKeyMismatch]); it is
	// checked again before every signature. Signing uses ctx and asks p.
	Signer(ctx context.Context, u URI, want crypto.PublicKey, p Prompter) (crypto.Signer, error)
	// Close lets the token go. It does not lock it for other users of the driver.
	Close() error
	Administration
}
