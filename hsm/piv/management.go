package piv

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
)

// Codes of the management key's cipher.
const (
	algTDES   = 0x03
	algAES128 = 0x08
	algAES192 = 0x0a
	algAES256 = 0x0c
)

// factoryKey is the management key of every new YubiKey: a 3DES key before
// firmware 5.7, an AES-192 key since.
var factoryKey = [24]byte{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}

func managementName(code byte) hsm.ManagementAlgorithm {
	return map[byte]hsm.ManagementAlgorithm{algTDES: hsm.TDES, algAES128: hsm.AES128, algAES192: hsm.AES192, algAES256: hsm.AES256}[code]
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

// managementState is what the card tells of its management key.
type managementState struct {
	code      byte // 0: not told
	isDefault bool
	told      bool // isDefault is the card's word
	touch     hsm.TouchPolicy
}

func (s *session) managementState() (managementState, error) {
	m, err := s.metadata(refManagement)
	switch {
	case err == nil:
		st := managementState{code: m.algorithm, isDefault: m.isDefault, told: true, touch: touchPolicy(m.touch)}
		if st.code == 0xff || managementName(st.code) == "" {
			st.code = algTDES
		}
		return st, nil
	case !refused(err) && !errors.Is(err, errNoReference):
		return managementState{}, err
	case s.id.version.known() && !s.id.version.since(5, 4):
		return managementState{code: algTDES, touch: hsm.TouchNever}, nil
	}
	return managementState{}, nil
}

// codes lists the ciphers to try a key of n bytes with.
func (st managementState) codes(n int) []byte {
	var all []byte
	for _, c := range []byte{algTDES, algAES192, algAES128, algAES256} {
		if _, want := managementCode(managementName(c)); want == n && (st.code == 0 || st.code == c) {
			all = append(all, c)
		}
	}
	return all
}

// errWrongKey: the management key was refused.
var errWrongKey = errors.New("the management key was refused")

// authenticate proves the management key to the card, and the card's knowledge
// of it to us (SP 800-73-4 part 2 appendix A.1.1, mutual authentication).
func (s *session) authenticate(st managementState, key []byte, touch func(*session) func()) error {
	for _, code := range st.codes(len(key)) {
		err := s.mutual(code, key, st.touch, touch)
		if err == nil {
			s.managed = true
			return nil
		}
		if !errors.Is(err, errWrongKey) && !isStatus(err, swWrongData, swWrongP1P2) {
			return err
		}
	}
	return errWrongKey
}

func (s *session) mutual(code byte, key []byte, policy hsm.TouchPolicy, touch func(*session) func()) error {
	block, err := blockCipher(code, key)
	if err != nil {
		return errWrongKey
	}
	n := block.BlockSize()
	witness, err := s.challenge(code, tlv(0x80), 0x80, n)
	if err != nil {
		return err
	}
	block.Decrypt(witness, witness)
	mine, want := make([]byte, n), make([]byte, n)
	rand.Read(mine) // never fails
	block.Encrypt(want, mine)
	if policy != hsm.TouchNever {
		defer touch(s)()
	}
	answer, err := s.challenge(code, append(tlv(0x80, witness), tlv(0x81, mine)...), 0x82, n)
	if isStatus(err, swNotSatisfied) {
		return errWrongKey
	}
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(answer, want) != 1 {
		return errWrongKey
	}
	return nil
}

// challenge sends one step of GENERAL AUTHENTICATE and reads n bytes under tag.
func (s *session) challenge(code byte, data []byte, tag uint32, n int) ([]byte, error) {
	b, err := s.send(command{ins: insAuthenticate, p1: code, p2: refManagement, data: tlv(0x7c, data)})
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

// provide finds the management key without a question and proves it: the
// default one, or the one that the card keeps under the PIN. errNeedPIN and
// errNeedManagement say what to ask for.
func (t *Token) provide(s *session, touch func(*session) func()) error {
	st, err := s.managementState()
	if err != nil {
		return err
	}
	if st.isDefault || !st.told {
		if err := s.authenticate(st, factoryKey[:], touch); !errors.Is(err, errWrongKey) {
			return err
		}
	}
	flags, err := s.pivman()
	if err != nil {
		return err
	}
	if flags.known && !flags.stored {
		return errNeedManagement
	}
	if state, err := s.pinState(); err != nil {
		return err
	} else if state.Locked {
		return errNeedManagement
	}
	if err := t.verifyHeld(s); err != nil {
		return err
	}
	key, err := s.protectedKey()
	if err != nil {
		return err
	}
	if key == nil {
		return errNeedManagement
	}
	defer key.Zero()
	if err := s.authenticate(st, key.Bytes(), touch); errors.Is(err, errWrongKey) {
		return errNeedManagement
	} else if err != nil {
		return err
	}
	return nil
}

// manage runs f with the management key proved, asking for what it takes.
func manage[T any](ctx context.Context, t *Token, p hsm.Prompter, f func(*session) (T, error)) (T, error) {
	touch := func(s *session) func() { return t.touching(ctx, s, p) }
	for asked := false; ; asked = true {
		v, err := do(ctx, t, func(s *session) (T, error) {
			var none T
			if err := t.provide(s, touch); err != nil {
				return none, err
			}
			return f(s)
		})
		switch {
		case errors.Is(err, errNeedPIN) && !asked:
			if err := t.Unlock(ctx, p); err != nil {
				return v, err
			}
		case errors.Is(err, errNeedPIN), errors.Is(err, errNeedManagement):
			return askManagement(ctx, t, p, touch, f)
		default:
			return v, err
		}
	}
}

// askManagement asks for the management key in hex and runs f with it.
func askManagement[T any](ctx context.Context, t *Token, p hsm.Prompter, touch func(*session) func(), f func(*session) (T, error)) (T, error) {
	var v T
	err := hsm.AskPIN(ctx, p, hsm.ManagementKey,
		func() (hsm.TokenInfo, error) {
			info := t.about()
			info.PIN = hsm.PINState{Retries: -1, MinLen: 32, MaxLen: 64}
			return info, ctx.Err()
		},
		func(typed *hsm.Secret) error {
			key, err := parseManagementKey(typed)
			if err != nil {
				return err
			}
			defer key.Zero()
			v, err = do(ctx, t, func(s *session) (T, error) {
				var none T
				st, err := s.managementState()
				if err != nil {
					return none, err
				}
				if err := s.authenticate(st, key.Bytes(), touch); errors.Is(err, errWrongKey) {
					return none, &hsm.PINError{Kind: hsm.ManagementKey, Retries: -1}
				} else if err != nil {
					return none, err
				}
				return f(s)
			})
			return err
		})
	return v, err
}

// parseManagementKey reads 32, 48 or 64 hex digits.
func parseManagementKey(typed *hsm.Secret) (*hsm.Secret, error) {
	raw := bytes.TrimSpace(typed.Bytes())
	key := make([]byte, hex.DecodedLen(len(raw)))
	if _, err := hex.Decode(key, raw); err != nil || len(key) != 16 && len(key) != 24 && len(key) != 32 {
		clear(key)
		return nil, fmt.Errorf("%w: a management key is 32, 48 or 64 hex digits", hsm.ErrPINInvalid)
	}
	return hsm.NewSecret(key), nil
}
