"""`python -m service` is `videau`."""

from service.cli import main

main()
