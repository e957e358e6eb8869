/* Address handles. */
#ifndef BEE_AH_H
#define BEE_AH_H

#include "object.h"

struct ah {
	struct ibv_ah ah;
	struct ibv_ah_attr attr;
};

#endif
