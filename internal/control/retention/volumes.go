package retention

import "path/filepath"

// UnsavedVolume returns the directory on the submitting machine with the volume of a run
// whose job was killed before its checkpoint was whole.
func UnsavedVolume(runDir string) string { return filepath.Join(runDir, "unsaved") }

// UnnamedVolume returns the directory on the submitting machine with the volume of a run
// that succeeded, and of which no output was there.
func UnnamedVolume(runDir string) string { return filepath.Join(runDir, "volume") }
