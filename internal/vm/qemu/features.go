package qemu

import (
	"context"
	"fmt"
)

// Features are what the processors of a machine offer to its software: the words of
// CPUID, after what neither the model nor the host has was taken away.
type Features []FeatureWord

// FeatureWord is a register that CPUID gives, in QEMU's form.
type FeatureWord struct {
	Register string `json:"cpuid-register"`
	EAX      uint32 `json:"cpuid-input-eax"`
	ECX      uint32 `json:"cpuid-input-ecx"`
	Bits     uint32 `json:"features"`
}

// Features asks for those of the machine's first processor. They are known before it
// runs. There are none where the architecture has no CPUID.
func (m *Monitor) Features(ctx context.Context) (Features, error) {
	var cpus []struct {
		Path   string `json:"qom-path"`
		Target string `json:"target"`
	}
	if err := m.Do(ctx, "query-cpus-fast", nil, &cpus); err != nil {
		return nil, err
	}
	if len(cpus) == 0 || cpus[0].Target != "x86_64" {
		return nil, nil
	}
	var f Features
	err := m.Do(ctx, "qom-get", map[string]string{"path": cpus[0].Path, "property": "feature-words"}, &f)
	return f, err
}

// Lacking reports what software that saw these features would miss with others.
func (f Features) Lacking(others Features) []string {
	has := map[FeatureWord]uint32{}
	for _, w := range others {
		bits := w.Bits
		w.Bits = 0
		has[w] |= bits
	}
	var lacking []string
	for _, w := range f {
		bits := w.Bits
		w.Bits = 0
		if missing := bits &^ has[w]; missing != 0 {
			lacking = append(lacking, fmt.Sprintf("CPUID %#x/%d %s bits %#x", w.EAX, w.ECX, w.Register, missing))
		}
	}
	return lacking
}
