package hsm_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// knownPIN answers each question with a PIN that is known beforehand, and refuses everything else. A program for people asks
// them.
type knownPIN string

func (p knownPIN) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) {
	return hsm.NewSecret([]byte(p)), nil
}
func (knownPIN) Confirm(context.Context, hsm.ConfirmPrompt) (bool, error) { return false, nil }
func (knownPIN) Touch(context.Context, hsm.TouchPrompt) func()            { return func() {} }

// A key on a token signs like any other key: as a crypto.Signer.
func Example() {
	ctx := context.Background()
	driver := hsmtest.NewFake(hsm.SchemePIV) // in a program: piv.New or pkcs11.New
	driver.Add(hsmtest.FakeOptions{Serial: "12345678", PIN: "123456"})

	uri, err := hsm.ParseURI("piv:serial=12345678")
	if err != nil {
		log.Fatal(err)
	}
	token, err := driver.Open(ctx, uri)
	if err != nil {
		log.Fatal(err)
	}
	defer token.Close()
	slot, err := token.Generate(ctx, hsm.GenerateOptions{Slot: "9a"}, knownPIN("123456"))
	if err != nil {
		log.Fatal(err)
	}
	signer, err := token.Signer(ctx, slot.URI, slot.Key.Public, knownPIN("123456"))
	if err != nil {
		log.Fatal(err)
	}
	digest := sha256.Sum256([]byte("hello"))
	signature, err := signer.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(slot.Key.Algorithm, ecdsa.VerifyASN1(signer.Public().(*ecdsa.PublicKey), digest[:], signature))
	// Output: ecdsa-p256 true
}

// A URI names a token or a key on it.
func ExampleParseURI() {
	key, err := hsm.ParseURI("piv:serial=12345678;slot=9a")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(key.Serial, key.Slot)
	fmt.Println(key.TokenOnly())

	_, err = hsm.ParseURI("pkcs11:token=prod?pin-value=1234")
	fmt.Println(err != nil)
	// Output:
	// 12345678 9a
	// piv:serial=12345678
	// true
}
