// Package applet speaks to the PIV application of one card: the card command interface
// of NIST SP 800-73-4 part 2 with the data model of its part 1, and Yubico's
// extensions. It says what the card says, and has the card do one thing at a time.
//
// It asks nobody, keeps no secret beyond a [Session], and knows neither tokens nor
// drivers: package piv makes those of it.
//
// A [Session] has a part for each thing that a PIV card has: its data objects
// ([Objects]), PIN and PUK ([PINs]), keys ([Keys]) and the management key
// ([Management]). All of them send their commands on one channel, which knows what has
// been proved to the card and makes it forget that in the end.
package applet
