package controlplane

import (
	"net"
	"slices"
	"strings"
	"testing"
)

// TestAddedAPIServers serve the same data, each as it is told to.
func TestAddedAPIServers(t *testing.T) {
	c := StartForTest(t, Options{NoControllers: true})
	add := func(a AddedAPIServer) string {
		url, err := c.AddAPIServer(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return url
	}
	second := add(AddedAPIServer{Flags: []string{"--runtime-config=autoscaling/v1=false"}})
	third := add(AddedAPIServer{NextCA: true})
	if _, err := c.Admin(t.Context(), "", "create", "configmap", "shared"); err != nil {
		t.Fatal(err)
	}
	for _, server := range []struct {
		url, ca    string
		autoscales bool
	}{{c.Server(), c.CAFile(), true}, {second, c.CAFile(), false}, {third, c.NextCAFile(), true}} {
		flags := []string{"--server=" + server.url, "--certificate-authority=" + server.ca}
		if _, err := c.Admin(t.Context(), "", append(flags, "get", "configmap", "shared")...); err != nil {
			t.Error(err)
		}
		out, err := c.Admin(t.Context(), "", append(flags, "api-versions")...)
		if err != nil || strings.Contains(out, "autoscaling/v1\n") != server.autoscales {
			t.Errorf("%s: %v, %s", server.url, err, out)
		}
	}
	if _, err := c.Admin(t.Context(), "", "--server="+third, "get", "configmap", "shared"); err == nil {
		t.Error("the next authority's certificate is the old one's")
	}
}

// TestBalancer passes connections on in turn, and ends them.
func TestBalancer(t *testing.T) {
	server := func(word string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(word)) // the connection stays open
			}
		}()
		return "https://" + l.Addr().String()
	}
	b := BalancerForTest(t, "127.0.0.1:0", server("a"), server("b"))
	dial := func() (net.Conn, string) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.URL(), "https://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		got := make([]byte, 1)
		if _, err := conn.Read(got); err != nil {
			t.Fatal(err)
		}
		return conn, string(got)
	}
	var all []string
	for range 4 {
		_, got := dial()
		all = append(all, got)
	}
	if !slices.Equal(all, []string{"a", "b", "a", "b"}) {
		t.Errorf("reached %v", all)
	}
	conn, _ := dial()
	if err := b.To(server("c")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("the old connection lives: %v", err)
	}
	if _, got := dial(); got != "c" {
		t.Errorf("reached %s", got)
	}
}
