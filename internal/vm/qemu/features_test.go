package qemu

import (
	"slices"
	"testing"
)

func TestLackingFeatures(t *testing.T) {
	ebx, ecx := FeatureWord{"EBX", 7, 0, 0x20}, FeatureWord{"ECX", 7, 0, 0x3}
	for name, c := range map[string]struct {
		saved, here Features
		want        []string
	}{
		"the same":                    {saved: Features{ebx, ecx}, here: Features{ebx, ecx}},
		"in another order":            {saved: Features{ebx, ecx}, here: Features{ecx, ebx}},
		"more":                        {saved: Features{ebx}, here: Features{{"EBX", 7, 0, 0x21}, ecx}},
		"saved before this was noted": {here: Features{ebx}},
		"one bit less":                {saved: Features{ecx}, here: Features{{"ECX", 7, 0, 0x1}}, want: []string{"CPUID 0x7/0 ECX bits 0x2"}},
		"a word less":                 {saved: Features{ebx, ecx}, here: Features{ecx}, want: []string{"CPUID 0x7/0 EBX bits 0x20"}},
		"that of another leaf":        {saved: Features{ebx}, here: Features{{"EBX", 7, 1, 0x20}}, want: []string{"CPUID 0x7/0 EBX bits 0x20"}},
	} {
		if got := c.saved.Lacking(c.here); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Machines of two models: what the one with everything has, the other lacks.
func TestFeaturesOfMachines(t *testing.T) {
	_, all := bare(t, Machine{CPU: "max"})
	_, few := bare(t, Machine{CPU: "Conroe"})
	most, err := all.Features(t.Context())
	if err != nil || len(most) == 0 {
		t.Fatalf("%v, %v", most, err)
	}
	least, err := few.Features(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if lacking := most.Lacking(least); len(lacking) == 0 {
		t.Errorf("a processor of 2006 has all of %v", most)
	}
	if lacking := least.Lacking(most); len(lacking) > 0 {
		t.Errorf("of a processor of 2006, emulated here, the newest lacks %q", lacking)
	}
}
