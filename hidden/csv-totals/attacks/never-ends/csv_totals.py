"""Never gives the processor back."""

while True:
    pass
