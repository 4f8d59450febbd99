// Package wine runs the Windows program under Wine, in a folder with a Debian of its own that
// has Wine 10: on a virtual card, which Wine's winscard reaches through a private pcscd, and
// with kubectl.exe on a real control plane. `make windows-check` makes the folder and the
// programs, and runs this.
package wine
