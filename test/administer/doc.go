// Package administer tests the administration of PIV cards from the command
// line on down to a card behind a real pcscd: the whole program in this process
// but for main, the PC/SC driver, and test/vcard.
package administer
