package hsm

import "fmt"

// Kind is what all tokens of a URI scheme have in common. It is known of a token
// that nobody has opened, so that options, words and questions can follow it; what
// one token can do is in [TokenInfo.Can]. That of an unknown scheme is zero.
type Kind struct {
	// Name is a word for such a token ("PIV"), Title a heading for several
	// ("Smart cards"), Source the word for what they are reached by ("Reader").
	Name, Title, Source string
	// Slots are the places for keys that every such token has, the one to use
	// first. Without slots, keys get places of their own and are told apart by
	// their labels.
	Slots []string
	// Spare are the places for further keys; not every token has all of them.
	Spare []string
	// Policies tells that a key's PIN and touch policy are chosen when it is made.
	Policies bool
	// Unblocks is the secret that sets a new PIN: [PUK] or [SOPIN].
	Unblocks PINKind
	// DefaultPIN and DefaultPUK are those of a new token that says that its PIN or PUK is the
	// default one; "" where none can say so. They are Yubico's, which others took over.
	DefaultPIN, DefaultPUK string
	// Modules tells that such tokens are reached by libraries, which a URI and the
	// user's configuration can name.
	Modules bool
	// Attests tells that such tokens may attest their keys.
	Attests bool
	// LoginStays tells that a PIN stays verified on the token when the process ends
	// that had it verified.
	LoginStays bool
	// Hides tells that such tokens may show what is on them only after login, and
	// that an interrupted [Token.Generate] may leave half a key.
	Hides bool
}

// KindOf returns the kind of the tokens of a URI scheme.
func KindOf(scheme string) Kind {
	switch scheme {
	case SchemePIV:
		return Kind{
			Name: "PIV", Title: "Smart cards", Source: "Reader",
			Slots: []string{"9a", "9c", "9d", "9e"}, Spare: retiredSlots(), Policies: true,
			Unblocks: PUK, DefaultPIN: "123456", DefaultPUK: "12345678", Attests: true, LoginStays: true,
		}
	case SchemePKCS11:
		return Kind{Name: "PKCS#11", Title: "PKCS#11 libraries", Source: "Library", Unblocks: SOPIN, Modules: true,
			Hides: true}
	}
	return Kind{}
}

// retiredSlots are the slots for retired keys (SP 800-73-4 part 1, table 4b), which
// take any key.
func retiredSlots() []string {
	var out []string
	for i := 0x82; i <= 0x95; i++ {
		out = append(out, fmt.Sprintf("%x", i))
	}
	return out
}

// PIVSlots are all slots of a PIV card, those that every card has first.
func PIVSlots() []string {
	k := KindOf(SchemePIV)
	return append(k.Slots, k.Spare...)
}

// HasSlots tells whether keys are in slots that have names of their own.
func (k Kind) HasSlots() bool { return len(k.Slots) > 0 }

// Kind returns the kind of the token that u names.
func (u URI) Kind() Kind { return KindOf(u.Scheme) }

// Kind returns the token's kind.
func (t TokenInfo) Kind() Kind { return KindOf(t.Scheme) }

// NewSlot returns the slot for a new key on the token that u names: that in u, else
// the one to use first; "" on kinds without slots.
func (u URI) NewSlot() string {
	k := u.Kind()
	switch {
	case !k.HasSlots():
		return ""
	case u.Slot != "":
		return u.Slot
	}
	return k.Slots[0]
}

// TokenName is what people know the token by that u names: its label, on kinds
// without labels its serial. It is raw.
func (u URI) TokenName() string {
	if u.Kind().HasSlots() {
		return u.Serial
	}
	return u.Token
}

// Blank returns a URI that any token matches which can be set up, see
// [Initializer].
func Blank() URI { return URI{Scheme: SchemePKCS11} }

// ModuleObject returns the URI of the object with that CKA_ID on whichever token
// the URI is completed to name.
func ModuleObject(id []byte) URI { return URI{Scheme: SchemePKCS11, ID: id} }
