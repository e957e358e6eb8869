package main

import "testing"

func TestPythonVersion(t *testing.T) {
	for version, want := range map[string]string{
		"0.1.0":                      "0.1.0",
		"v1.2.0":                     "1.2.0",
		"1.0.0-rc1":                  "1.0.0rc1",
		"1.0.0-rc.2-3-gabc1234":      "1.0.0rc2+3.gabc1234",
		"0.1.0-12-g1a2b3c4-dirty":    "0.1.0+12.g1a2b3c4.dirty",
		"0.2.0-alpha":                "0.2.0+alpha",
		"0.1.0-2-gabcdef0-x_y--Z.9-": "0.1.0+2.gabcdef0.x.y.z.9",
	} {
		if got := pythonVersion(version); got != want {
			t.Errorf("%s becomes %s, want %s", version, got, want)
		}
	}
}
