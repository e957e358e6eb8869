package template

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// BuildID returns the ID by Go's linker of a program. Different programs have different ones.
func BuildID(program string) ([]byte, error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := f.Section(".note.go.buildid")
	if s == nil {
		return nil, fmt.Errorf("%s has no build ID", program)
	}
	return s.Data()
}

// HostProcessor returns what a guest may see of its host.
func HostProcessor() []string {
	kernel, _ := os.ReadFile("/proc/version")
	words := []string{string(kernel)}
	raw, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(raw)) {
		for _, key := range []string{"model name", "flags", "Features", "CPU part"} {
			if strings.HasPrefix(line, key) && !slices.Contains(words, line) {
				words = append(words, line)
			}
		}
	}
	return words
}

// Key returns the key of all that a template depends on beside the guest image.
func Key(parts ...any) (string, error) {
	raw, err := json.Marshal(parts)
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), err
}
