"""Names all it is given and refuses it, in the hope that refusing was right."""

import sys

for argument in sys.argv[1:]:
    print(argument, file=sys.stderr)
sys.exit(2)
