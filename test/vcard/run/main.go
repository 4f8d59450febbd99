// Command run runs a program against a virtual YubiKey:
//
//	go run ./test/vcard/run -- yubico-piv-tool -a status
//	go run ./test/vcard/run -firmware 5.2.7 -serial 42 -- sh
//
// The program sees a private pcscd with one card in the first of two readers.
// With -touch=enter a person answers each touch by pressing Enter on the
// terminal; the default answers at once, "never" lets them time out.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/kubehsm/kubehsm/test/vcard"
)

func main() { os.Exit(run()) }

func run() int {
	serial := flag.Uint("serial", 12345678, "serial of the card")
	firmware := flag.String("firmware", "5.7.1", "firmware version of the card")
	touch := flag.String("touch", "yes", "how touches are answered: yes, never, enter")
	flag.Parse()
	var config vcard.Config
	config.Serial = uint32(*serial)
	f := &config.Firmware
	if _, err := fmt.Sscanf(*firmware, "%d.%d.%d", &f[0], &f[1], &f[2]); err != nil {
		return fail(fmt.Errorf("firmware %q is not like 5.7.1", *firmware))
	}
	switch *touch {
	case "yes":
	case "never":
		config.Touch = timeout
	case "enter":
		config.Touch = enter
	default:
		return fail(fmt.Errorf("unknown -touch=%s", *touch))
	}
	if flag.NArg() == 0 {
		return fail(fmt.Errorf("name the program to run"))
	}
	code, err := vcard.Run([]*vcard.Card{vcard.New(config)}, flag.Arg(0), flag.Args()[1:]...)
	if err != nil {
		return fail(err)
	}
	return code
}

// touchTimeout is how long a YubiKey waits for a touch.
const touchTimeout = 15 * time.Second

func timeout(_ byte, done <-chan struct{}) bool {
	select {
	case <-done:
	case <-time.After(touchTimeout):
	}
	return false
}

func enter(slot byte, done <-chan struct{}) bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vcard:", err)
		return false
	}
	defer tty.Close()
	fmt.Fprintf(tty, "[virtual card: slot %x blinks, press Enter to touch it]\n", slot)
	pressed := make(chan bool, 1)
	go func() {
		_, err := bufio.NewReader(tty).ReadString('\n')
		pressed <- err == nil
	}()
	select {
	case yes := <-pressed:
		return yes
	case <-done:
	case <-time.After(touchTimeout):
	}
	return false
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "error:", err)
	return 1
}
