package qemu

import "testing"

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"\x1bc\x1b[?7l\x1b[2J\x1b[0mSeaBIOS (version 1.16)\r\nBooting from ROM..\x1b[?7h": "SeaBIOS (version 1.16)\nBooting from ROM..\n",
		"[    0.1] a line\n[    0.2] \x1b(Banother\n":                                     "[    0.1] a line\n[    0.2] another\n",
		"": "\n",
	} {
		if got := Plain([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
