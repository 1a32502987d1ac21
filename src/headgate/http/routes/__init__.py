"""Operations that need more than a call of a service: one file for each noun."""
