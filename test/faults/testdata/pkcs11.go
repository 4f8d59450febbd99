// Put into the PKCS#11 driver of the program under test.

package pkcs11

import "os"

// faultToken is a point before a library is told to do what changes a token.
func faultToken[T any](ctx T, what string) T {
	os.FaultPoint("token " + what)
	return ctx
}
