package applet

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Codes of the management key's cipher.
const (
	algTDES   = 0x03
	algAES128 = 0x08
	algAES192 = 0x0a
	algAES256 = 0x0c
)

// defaultKey is the management key of every new YubiKey: a 3DES key before
// firmware 5.7, an AES-192 key since.
var defaultKey = [24]byte{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}

func managementName(code byte) hsm.ManagementAlgorithm {
	return map[byte]hsm.ManagementAlgorithm{algTDES: hsm.TDES, algAES128: hsm.AES128, algAES192: hsm.AES192,
		algAES256: hsm.AES256}[code]
}

func managementCode(a hsm.ManagementAlgorithm) (code byte, length int) {
	switch a {
	case hsm.TDES:
		return algTDES, 24
	case hsm.AES128:
		return algAES128, 16
	case hsm.AES192:
		return algAES192, 24
	case hsm.AES256:
		return algAES256, 32
	}
	return 0, 0
}

func blockCipher(code byte, key []byte) (cipher.Block, error) {
	if code == algTDES {
		return des.NewTripleDESCipher(key)
	}
	return aes.NewCipher(key)
}

// Management is the key that guards writing, with the copy of it that some cards keep
// under the PIN.
type Management struct {
	c       *channel
	objects Objects
}

// ManagementState is what the card tells of its management key.
type ManagementState struct {
	Default bool
	Told    bool // Default is the card's word
	Touch   hsm.TouchPolicy

	code byte // code of the cipher; 0: not told
}

// State reads what the card tells.
func (k Management) State() (ManagementState, error) {
	m, err := k.c.metadata(refManagement)
	switch {
	case err == nil:
		st := ManagementState{code: m.algorithm, Default: m.isDefault, Told: true, Touch: touchPolicy(m.touch)}
		if st.Algorithm() == "" {
			st.code = algTDES
		}
		return st, nil
	case !Refused(err) && !errors.Is(err, errNoReference):
		return ManagementState{}, err
	case k.c.version.Known() && !k.c.version.Since(5, 4):
		return ManagementState{code: algTDES, Touch: hsm.TouchNever}, nil
	}
	return ManagementState{}, nil
}

// Algorithm is the key's cipher, "" if it is not told.
func (st ManagementState) Algorithm() hsm.ManagementAlgorithm { return managementName(st.code) }

// codes lists the ciphers to try a key of n bytes with.
func (st ManagementState) codes(n int) []byte {
	var all []byte
	for _, c := range []byte{algTDES, algAES192, algAES128, algAES256} {
		if _, want := managementCode(managementName(c)); want == n && (!st.Told || st.code == c) {
			all = append(all, c)
		}
	}
	return all
}

// ErrWrongKey says that the card refused the management key.
var ErrWrongKey = errors.New("the management key was refused")

// Authenticate proves the management key to the card, and the card's knowledge of it to
// us (SP 800-73-4 part 2 appendix A.1.1, mutual authentication). touch shows that a touch
// may be awaited, until the function that it returns is called. If the card has another
// key, the error is [ErrWrongKey].
func (k Management) Authenticate(st ManagementState, key []byte, touch func() func()) error {
	for _, code := range st.codes(len(key)) {
		err := k.mutual(code, key, st.Touch, touch)
		if err == nil {
			k.c.managed = true
			return nil
		}
		if !errors.Is(err, ErrWrongKey) && !isStatus(err, swWrongData, swWrongP1P2) {
			return err
		}
	}
	return ErrWrongKey
}

// AuthenticateDefault is Authenticate with the key of a new card.
func (k Management) AuthenticateDefault(st ManagementState, touch func() func()) error {
	return k.Authenticate(st, defaultKey[:], touch)
}

func (k Management) mutual(code byte, key []byte, policy hsm.TouchPolicy, touch func() func()) error {
	block, err := blockCipher(code, key)
	if err != nil {
		return ErrWrongKey
	}
	n := block.BlockSize()
	witness, err := k.challenge(code, tlv(0x80), 0x80, n)
	if err != nil {
		return err
	}
	block.Decrypt(witness, witness)
	mine, want := make([]byte, n), make([]byte, n)
	rand.Read(mine) // rand.Read never fails
	block.Encrypt(want, mine)
	if policy != hsm.TouchNever {
		defer touch()()
	}
	answer, err := k.challenge(code, append(tlv(0x80, witness), tlv(0x81, mine)...), 0x82, n)
	if isStatus(err, NotSatisfied) {
		return ErrWrongKey
	}
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(answer, want) != 1 {
		return ErrWrongKey
	}
	return nil
}

// challenge sends one step of GENERAL AUTHENTICATE and reads n bytes under tag.
func (k Management) challenge(code byte, data []byte, tag uint32, n int) ([]byte, error) {
	b, err := k.c.send(command{ins: insAuthenticate, p1: code, p2: refManagement, data: tlv(0x7c, data)})
	if err != nil {
		return nil, err
	}
	template, err := unwrap(b, 0x7c)
	if err != nil {
		return nil, nonsense{err}
	}
	v, err := unwrap(template, tag)
	if err != nil || len(v) != n {
		return nil, nonsense{errTLV}
	}
	return bytes.Clone(v), nil
}

// NewKey makes the key that o asks for, or takes the one in o, for the cipher that o
// names or else the one in use. It is not in force yet; see [Management.Set].
func (k Management) NewKey(o hsm.ManagementKeyOptions) (hsm.ManagementAlgorithm, *hsm.Secret, error) {
	st, err := k.State()
	if err != nil {
		return "", nil, err
	}
	a := cmp.Or(o.Algorithm, st.Algorithm(), hsm.TDES)
	_, n := managementCode(a)
	switch {
	case n == 0:
		return "", nil, fmt.Errorf("management keys of type %q: %w", a, hsm.ErrUnsupported)
	case o.Key == nil:
		b := make([]byte, n)
		rand.Read(b) // rand.Read never fails
		return a, hsm.NewSecret(b), nil
	case o.Key.Len() != n:
		return "", nil, hsm.Unfit(hsm.ManagementKey, "it has %d bytes, but the card expects %d", o.Key.Len(), n)
	}
	return a, o.Key.Clone(), nil
}

// ErrOldKey says that the card refused a new management key and has the old one in force.
var ErrOldKey = errors.New("the old management key is still in force")

// Set puts a new key in force. The old one must have been proved. A card that refuses is
// asked by [Management.Decide] which of the two it has, as some carry out what they refuse.
func (k Management) Set(a hsm.ManagementAlgorithm, key *hsm.Secret, o hsm.ManagementKeyOptions) error {
	code, _ := managementCode(a)
	p2 := byte(0xff)
	if o.Touch {
		p2 = 0xfe
	}
	data := append([]byte{code, refManagement, byte(key.Len())}, key.Bytes()...)
	defer clear(data)
	_, err := k.c.send(command{ins: insSetManagement, p1: 0xff, p2: p2, data: data})
	if err == nil {
		return nil
	}
	return hint.With(fmt.Errorf("setting the management key of type %s: %w", a, err),
		"the old key is likely still in force; keep both until you know which one works")
}

// Decide finds out whether a card has a new key after all, which it refused with an error:
// nil if it has. [ErrOldKey] if it has the old one, which then is proved no more. touch is
// as in [Management.Authenticate].
func (k Management) Decide(refused error, a hsm.ManagementAlgorithm, key *hsm.Secret, o hsm.ManagementKeyOptions,
	touch func() func()) error {
	code, _ := managementCode(a)
	st := ManagementState{Told: true, code: code, Touch: hsm.TouchNever}
	if o.Touch {
		st.Touch = hsm.TouchAlways
	}
	switch proved := k.Authenticate(st, key.Bytes(), touch); {
	case proved == nil:
		return nil
	case !errors.Is(proved, ErrWrongKey):
		return refused
	case StatusOf(refused).Unknown() || isStatus(refused, swWrongData, swWrongP1P2):
		refused = fmt.Errorf("%w: %w", refused, hsm.ErrUnsupported)
	}
	return hint.With(fmt.Errorf("%w: %w", refused, ErrOldKey), "nothing has changed")
}

// Note sets ykman's flag that the card keeps the key, or clears it and the copy of the
// former key, once a new one is in force.
func (k Management) Note(o hsm.ManagementKeyOptions) error {
	flags, err := k.pivman()
	if err == nil && (flags.known || o.Protect) {
		err = k.objects.put(objectPivman, flags.with(o.Protect))
		if o.Protect && !flags.known && StatusOf(err) != 0 {
			err = nil // a card without room for the flag; the key is found without it
		}
	}
	if err == nil && !o.Protect && flags.stored {
		// The former key is of no use any more; nothing depends on its copy.
		err = k.objects.put(objectPrinted, protect(nil, nil, nil))
	}
	if err != nil {
		return hint.With(fmt.Errorf("the new management key is in force, but ykman's note of it was not written: %w", err),
			"keep the new key safe")
	}
	return nil
}
