//go:build cgo

package pkcs11_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kubehsm/kubehsm/hsm/pkcs11"
)

// A library that cannot be loaded is a problem of its own. It does not hide the tokens of others.
func ExampleDriver_List() {
	driver := pkcs11.New(pkcs11.Options{Modules: []pkcs11.Module{{Path: "/nonexistent/library.so"}}})
	defer driver.Close()
	listing, err := driver.List(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range listing.Tokens {
		fmt.Println(t.URI())
	}
	for _, p := range listing.Problems {
		fmt.Println("problem:", p.Source)
	}
	// Output: problem: /nonexistent/library.so
}
