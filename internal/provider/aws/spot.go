package aws

import (
	_ "embed"
	"time"
)

// spot is the word of Settings.Market for machines that may be taken back. All others are on demand.
const spot = "spot"

// noticeTime is how long before the end of a spot machine EC2 announces it ("Spot Instance interruption notices").
const noticeTime = 2 * time.Minute

// noticeScript asks the metadata service of a machine for the notice that it is interrupted, for scheduled maintenance,
// and for the recommendation to leave it (rebalance).
//
//go:embed notice.sh
var noticeScript string
