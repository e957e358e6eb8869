package retention

import "path/filepath"

// UnsavedVolume returns where the volume of a run lies on the submitting machine whose job
// was killed before its checkpoint was whole.
func UnsavedVolume(runDir string) string { return filepath.Join(runDir, "unsaved") }

// UnnamedVolume returns where the volume of a run lies on the submitting machine that
// succeeded, and of which no output was there.
func UnnamedVolume(runDir string) string { return filepath.Join(runDir, "volume") }
