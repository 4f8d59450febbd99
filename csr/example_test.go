package csr_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"log"
	"time"

	"github.com/kubehsm/kubehsm/csr"
)

// A request is signed by the key that the certificate is for. The key may be on a token.
func ExampleNewRequest() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	pem, err := csr.NewRequest(key, csr.Subject{User: "jane", Groups: []string{"dev"}}, csr.RequestOptions{})
	if err != nil {
		log.Fatal(err)
	}
	info, err := csr.InspectRequest(pem)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Subject.User, info.Subject.Groups, info.KeyAlgorithm)
	// Output: jane [dev] ECDSA P-256
}

// Two people compare a key's fingerprint as words, over the phone.
func ExampleFingerprintWords() {
	words, err := csr.FingerprintWords("00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(words)
	// Output: [abstract way divert acid useless legend advance theme]
}

// Kubernetes issues no certificate for less than ten minutes.
func ExampleValidExpiration() {
	fmt.Println(csr.ValidExpiration(time.Hour))
	fmt.Println(csr.ValidExpiration(time.Minute) != nil)
	// Output:
	// <nil>
	// true
}
