// Package hardware examines a token in somebody's hand, and writes a report of it:
//
//	make hardware-check
//	make hardware-suite TOKEN='piv:serial=12345678' ERASE=12345678
//
// The first only reads. The second runs the contract suite on a token that may be erased.
// One that cannot be reset must hold no key and no certificate, and is left so.
package hardware
