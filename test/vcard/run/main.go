// Command run runs a program against a virtual YubiKey:
//
//	go run ./test/vcard/run -- yubico-piv-tool -a status
//	go run ./test/vcard/run -firmware 5.2.7 -serial 42 -- sh
//
//	go run ./test/vcard/run -kind 'NIST SP 800-73-4' -- kubehsm token info
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
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/test/vcard"
)

func main() { os.Exit(run()) }

func run() int {
	serial := flag.Uint("serial", 12345678, "serial of the card")
	firmware := flag.String("firmware", "5.7.1", "firmware version of the card")
	touch := flag.String("touch", "yes", "how touches are answered: yes, never, enter")
	kind := flag.String("kind", "", "kind of card (a vcard.Personality's name), in place of serial and firmware")
	flag.Parse()
	config, err := cardOf(*kind)
	if err != nil {
		return fail(err)
	}
	config.Serial = uint32(*serial)
	if f := &config.Firmware; *kind == "" {
		if _, err := fmt.Sscanf(*firmware, "%d.%d.%d", &f[0], &f[1], &f[2]); err != nil {
			return fail(fmt.Errorf("firmware %q is not like 5.7.1", *firmware))
		}
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

// cardOf is the configuration of a kind of card, or the ordinary one.
func cardOf(kind string) (vcard.Config, error) {
	if kind == "" {
		return vcard.Config{}, nil
	}
	var names []string
	for _, p := range vcard.Personalities() {
		if p.Name == kind {
			return p.Config, nil
		}
		names = append(names, fmt.Sprintf("%q", p.Name))
	}
	return vcard.Config{}, fmt.Errorf("no kind of card %q; there are %s", kind, strings.Join(names, ", "))
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
