package workspace

import "time"

// StartTime is how long a controller may take to show up.
const StartTime = 3 * time.Second
