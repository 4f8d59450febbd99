// Package attest reads, verifies and words a token's statement about where one
// of its keys was made and what guards it (Yubico, "PIV attestation").
//
// Such a statement is a certificate for the key, signed by the device's
// attestation key (slot f9), whose own certificate was signed by the maker. It
// proves that the key was generated on that device and cannot leave it. It
// travels inside a PKCS#10 request as two extensions ([Extensions]), so that
// whoever approves the request sees where the key lives.
//
// Yubico's published roots and PIV intermediates are embedded
// (developers.yubico.com/PKI, list of 2025-02-03); other makers' are given in
// [Verifier].
package attest
