// Package pcsc reaches the cards in this machine's smart card readers: PC/SC on Linux
// (pcsc-lite) and macOS, the Smart Card service on Windows. It lists readers, holds a
// card in a transaction and carries APDUs to it. It knows nothing of what is on a card.
//
// Its errors are ready to be shown. A build without cgo, which PC/SC needs everywhere
// but on Windows, has no readers and says so.
package pcsc
