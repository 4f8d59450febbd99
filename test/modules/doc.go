// Package modules runs the contract suite over the PKCS#11 driver on modules
// that are not SoftHSM: Yubico's and OpenSC's over a virtual PIV card,
// openCryptoki's software token, which really locks, and a TPM's. Each needs
// something private of the machine, so the tests run in namespaces of their own
// (see package vcard).
package modules
