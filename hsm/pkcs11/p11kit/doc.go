// Package p11kit finds the PKCS#11 modules of this machine: by p11-kit's configuration
// (pkcs11.conf(5)) and in well-known places. It reads files and loads nothing, so it
// needs no cgo, and knows no driver.
package p11kit
