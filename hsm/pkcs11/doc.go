// Package pkcs11 is the [hsm.Driver] for everything that has a PKCS#11 library
// (OASIS PKCS#11 v2.40): HSMs, smart cards, SoftHSM2, TPMs.
//
// # Modules
//
// Libraries ("modules") are found through p11-kit's configuration and in
// well-known places, or named. A URI with module-path loads that one and
// nothing else. A module that cannot be loaded never hides the others.
//
// Some modules see only the tokens that were there when they were set up
// (C_Initialize; SoftHSM2 is one). When a token is not found, those in which
// nobody has a session are set up anew, at most every five seconds.
//
// # Sessions and logins
//
// PKCS#11 logs in an application, not a session. All tokens opened from one
// [Driver] that are the same device share one session, one login and one
// queue. The login lasts until [hsm.Token.Lock], [Driver.Close], or the removal
// of the token; closing an [hsm.Token] does not end it. No session, login or
// lock is held while a person is asked.
//
// In code, each on top of the one before: a module is a library; a presence is where
// a token is and what it says of itself; a session is the session and login with it; a
// device shares them among all who opened it, and asks nobody. A reader and a writer
// are what is done with objects in one session. What asks for PINs stands beside the
// device.
//
// # Processes
//
// SoftHSM2 (2.6) rewrites its token file in place at every C_Login, and a
// process that reads it in that moment (C_Initialize, C_GetSlotList,
// C_OpenSession) fails: 21 to 39 of 100 cold processes, eight at a time. So a
// file in [Options].LockDir is locked, shared around calls that read a token
// and exclusively around those that write it. It is never held while a
// signature is made or a person is asked, nor beyond one call.
package pkcs11
